-- expect: script
function F() return load('while true do end') end
