import { Command } from 'commander';
import { expect, it } from 'vitest';
import { addTo } from '../../cli/commands/dataset.ts';
import { LAYOUTS } from '../../store/datasets/layouts/catalogue.ts';
import { readRecipe } from '../../store/datasets/recipe.ts';

/** The help of `troupe dataset NAME`. */
function helpOf(name: string): string {
  const program = new Command();
  addTo(program);
  const dataset = program.commands.find((command) => command.name() === 'dataset')!;
  const help: string[] = [];
  dataset.commands
    .find((command) => command.name() === name)!
    .configureOutput({ writeOut: (text) => void help.push(text) })
    .outputHelp();
  return help.join('');
}

it('every recipe in the help of dataset freeze can be read', () => {
  const recipes = [...helpOf('freeze').matchAll(/(?:^ {2}\w.*\n)+/gm)]
    .map(([block]) => block.replace(/^ {2}/gm, ''))
    .filter((block) => block.startsWith('name:'));
  expect(recipes.map((recipe) => readRecipe(recipe).name)).toEqual([
    'good-solvers',
    'few-and-easy-first',
    'weighed',
    'new-and-old',
  ]);
});

it('the help of dataset export lists every layout as the catalogue describes it', () => {
  const listed = [
    ...helpOf('export')
      .split('Layouts:')[1]!
      .split('\n\n')[0]!
      .matchAll(/^ {2}(\S+) +(.+)$/gm),
  ];
  expect(listed.map(([, name, about]) => [name, about])).toEqual(LAYOUTS.map(({ name, about }) => [name, about]));
});
