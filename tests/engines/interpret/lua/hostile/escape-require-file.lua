-- expect: script
function F() return require('../../../etc/passwd') end
