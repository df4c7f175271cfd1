-- expect: deadline
function F() while true do pcall(string.rep, 'x', 1e9) end end
