-- expect: script
function F() return require('io').open('/etc/passwd') end
