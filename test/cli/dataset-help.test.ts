import { expect, it } from 'vitest';
import { freeze } from '../../api/operations/dataset.ts';
import { readRecipe } from '../../store/datasets/recipe.ts';

it('every recipe in the help of dataset freeze can be read', () => {
  const recipes = [...`${freeze.notes}\n`.matchAll(/(?:^ {2}\w.*\n)+/gm)].map(([block]) =>
    block.replace(/^ {2}/gm, ''),
  );
  expect(recipes.map((recipe) => readRecipe(recipe).name)).toEqual([
    'good-solvers',
    'few-and-easy-first',
    'weighed',
    'new-and-old',
  ]);
});
