-- expect: answer
function F(a) for k, v in pairs(_G) do if type(k) == 'table' then return {k = 'found'} end end return {} end
