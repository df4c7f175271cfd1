-- expect: deadline
function F() repeat until false end
