-- expect: output memory
function F() local s, t = ('x'):rep(1e5), {} for i = 1, 1e4 do t[i] = s end return t end
