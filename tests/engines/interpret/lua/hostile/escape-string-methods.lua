-- expect: script
function F() local s = '' s.format = 1 end
