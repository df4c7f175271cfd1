-- expect: deadline
function F() for i = 1, math.huge do end end
