-- expect: script
function F() return python.eval('1') end
