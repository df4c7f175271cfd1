-- expect: memory deadline
function F() return (string.gsub(('a'):rep(1e5), 'a', ('b'):rep(1e5))) end
