-- expect: script
function F() return string.dump(F) end
