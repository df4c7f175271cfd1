-- expect: deadline
function F() return string.find(('a '):rep(3000), '%f[%a].-%f[%d].-%f[%a]') end
