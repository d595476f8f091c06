import { join } from 'node:path';
import { expect, it } from 'vitest';
import { typedName } from '../../cli/version.ts';

it('what a person is told to type asks no registry: npx troupe in a checkout, npx --no troupe where the package is installed', () => {
  expect(typedName()).toBe('npx troupe');
  expect(typedName(join(import.meta.dirname, 'no-checkout/cli.ts'))).toBe('npx --no troupe');
});
