-- expect: script
function F() return dofile('/etc/passwd') end
