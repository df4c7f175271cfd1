-- expect: deadline script answer
function F() return string.find(('a'):rep(5000), '[' .. ('b'):rep(5000) .. ']+c') end
