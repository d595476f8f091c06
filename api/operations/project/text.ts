/** Projects as text for people. */
import type { OutputOf } from '../operation.ts';
import type * as run from './run.ts';

export const created = ({ project, created }: OutputOf<typeof run.create>): string =>
  created ? `Project ${project} created. Use it with --project ${project}.` : `Project ${project} exists already.`;

export const listed = ({ items }: OutputOf<typeof run.list>): string =>
  items.length === 0
    ? 'No projects yet. The first is created by the first import.'
    : items.map(({ project }) => project).join('\n');
