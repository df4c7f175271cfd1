-- expect: output
function F(a) local t = {} for i = 1, 9000 do t[i] = a end local u = {} for i = 1, 9000 do u[i] = t end return u end
