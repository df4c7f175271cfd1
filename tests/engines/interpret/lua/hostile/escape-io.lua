-- expect: script
function F() return io.open('/etc/passwd'):read('*a') end
