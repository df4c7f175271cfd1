-- expect: script
function F() return _G.python.builtins.open('/etc/passwd') end
