export * from '../index.ts';
