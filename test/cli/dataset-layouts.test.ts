import { Command } from 'commander';
import { expect, it } from 'vitest';
import { datasetCommands } from '../../cli/commands/dataset.ts';
import { LAYOUTS } from '../../store/datasets/layouts/catalogue.ts';

it('the help of dataset export lists every layout as the catalogue describes it', () => {
  const program = new Command();
  datasetCommands(program);
  const dataset = program.commands.find((command) => command.name() === 'dataset')!;
  const exporting = dataset.commands.find((command) => command.name() === 'export')!;
  const help: string[] = [];
  exporting.configureOutput({ writeOut: (text) => void help.push(text) }).outputHelp();
  const listed = [
    ...help
      .join('')
      .split('Layouts:')[1]!
      .split('\n\n')[0]!
      .matchAll(/^ {2}(\S+) +(.+)$/gm),
  ];
  expect(listed.map(([, name, about]) => [name, about])).toEqual(LAYOUTS.map(({ name, about }) => [name, about]));
});
