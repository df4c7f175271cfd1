-- expect: script
function F() return {x = print} end
