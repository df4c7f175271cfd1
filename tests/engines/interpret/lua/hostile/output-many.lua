-- expect: output memory deadline
function F() local t = {} for i = 1, 5e5 do t[i] = i end return t end
