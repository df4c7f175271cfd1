-- expect: deadline memory
function F() local s, t = ('x'):rep(3e6), {} local i = 0 while true do i = i + 1 t[s .. i] = 1 t[s .. i] = nil end end
