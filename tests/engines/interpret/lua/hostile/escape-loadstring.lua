-- expect: script
function F() return loadstring('\27Lua') end
