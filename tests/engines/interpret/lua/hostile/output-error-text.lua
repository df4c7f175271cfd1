-- expect: script
function F() error(('x'):rep(1e6)) end
