-- expect: script
function F() return {x = '\255\254'} end
