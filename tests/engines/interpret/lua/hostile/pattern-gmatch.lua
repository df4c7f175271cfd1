-- expect: deadline
function F() for _ in string.gmatch(('a'):rep(3000), '(a*)*(a*)(a*)b') do end end
