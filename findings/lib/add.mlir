func.func @add(%a: tensor<1024xf32>, %b: tensor<1024xf32>) -> tensor<1024xf32> {
  %sum = arith.addf %a, %b : tensor<1024xf32>
  return %sum : tensor<1024xf32>
}
