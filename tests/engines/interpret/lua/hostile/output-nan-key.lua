-- expect: script
function F() local t = {} t[0/0] = 1 return t end
