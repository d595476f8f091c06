/** Recipes that come with Troupe: one commented file each, in the folder `recipes` of the package. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { got, TroupeError } from '../../errors.ts';
import { packageFolder } from '../../migrations/migrate.ts';
import { nearest } from '../../nearest.ts';

export type ReadyRecipe = {
  readonly name: string;
  /** Its first comment: whose it is, and which rows it takes. */
  readonly about: string;
  /** Methods that have to judge first, as `troupe judge --methods` takes them; null where none has to. */
  readonly judge: string | null;
  readonly text: string;
};

/** All of them, by name. */
export function readyRecipes(): readonly ReadyRecipe[] {
  const folder = packageFolder('recipes');
  return readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .sort()
    .map((file) => {
      const text = readFileSync(join(folder, file), 'utf8');
      const comments = /^(?:#.*\n)+/u.exec(text)?.[0] ?? '';
      const judge = /^# judge: (.+)$/mu.exec(comments)?.[1] ?? null;
      const about = comments
        .split('\n')
        .filter((line) => line !== '' && !line.startsWith('# judge: '))
        .map((line) => line.slice(2))
        .join(' ');
      return { name: file.slice(0, -'.yaml'.length), about, judge, text };
    });
}

/** @throws TroupeError `not_found` with the nearest name */
export function readyRecipe(name: string): ReadyRecipe {
  const all = readyRecipes();
  const found = all.find((one) => one.name === name);
  if (found) return found;
  const names = all.map((one) => one.name);
  const meant = nearest(name, names);
  throw new TroupeError('not_found', `There is no recipe ${got(name)}.${meant ? ` Did you mean ${meant}?` : ''}`, {
    expected: `one of ${names.join(', ')}`,
    got: got(name),
  });
}
