-- expect: memory script
function F() return string.rep('x', 1e9) end
