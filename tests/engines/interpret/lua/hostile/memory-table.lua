-- expect: memory deadline
function F() local t = {} while true do t[#t + 1] = {} end end
