-- expect: memory deadline script
function F() local t = {} while true do t[#t + 1] = ('x'):rep(1e5):upper() end end
