-- expect: deadline
function F() for i = 1, -math.huge, -1 do end end
