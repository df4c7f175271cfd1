-- expect: answer
function F() return string.rep('', 1e9, 'xxxxxxxx') end
