-- expect: script
function F() return {x = 0/0} end
