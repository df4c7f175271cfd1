-- expect: deadline
function F() return string.find(('a'):rep(3000), '(.*)%1b') end
