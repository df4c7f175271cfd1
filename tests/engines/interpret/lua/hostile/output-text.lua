-- expect: output
function F() return {x = ('x'):rep(1.2e7)} end
