-- expect: deadline
function F() while true do end end
