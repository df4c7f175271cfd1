-- expect: deadline
function F() return string.match(('a'):rep(40), ('a*'):rep(12) .. 'b') end
