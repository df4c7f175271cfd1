-- expect: output memory
function F() local t = {} local u = t for i = 1, 1e5 do u.x = {} u = u.x end return t end
