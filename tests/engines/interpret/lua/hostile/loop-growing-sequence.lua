-- expect: deadline memory
function F() local t = {1} for _, v in ipairs(t) do t[#t + 1] = v end end
