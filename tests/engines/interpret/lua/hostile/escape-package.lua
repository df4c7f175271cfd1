-- expect: script
function F() return package.loadlib('libc.so.6', '*') end
