-- expect: script deadline
function F() return string.find(('a'):rep(1000), ('('):rep(500)) end
