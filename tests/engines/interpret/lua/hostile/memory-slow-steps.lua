-- expect: deadline memory
function F() local s = ('x'):rep(6e6) while true do local t = s .. '1' end end
