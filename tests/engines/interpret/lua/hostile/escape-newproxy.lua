-- expect: script
function F() return newproxy(true) end
