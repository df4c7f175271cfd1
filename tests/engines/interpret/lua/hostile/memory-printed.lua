-- expect: deadline
function F() while true do print(('x'):rep(1e6)) end end
