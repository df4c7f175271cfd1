-- expect: script
function F() return unpack({}, 1, 1e8) end
