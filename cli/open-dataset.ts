import { resolve } from 'node:path';
import type { OpenedDataset } from '../store/datasets/read.ts';

/** A dataset named by folder, or by id or name in the home. */
export async function openedDataset(folder: string, name: string): Promise<OpenedDataset> {
  const { findDataset, openDataset } = await import('../store/datasets/read.ts');
  return openDataset(name.includes('/') ? resolve(name) : await findDataset(folder, name));
}
