-- expect: deadline
function F() return string.find(('('):rep(200000), '%b()') end
